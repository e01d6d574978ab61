"""The index of a template with very many queries: clusters of boxes, one index per alternative."""
