"""What lets many queries share one plan: parameter relations and their match with streams."""
