"""Update patterns of plan edges and plan checks. Imports logical, schema, delta and errors only."""
