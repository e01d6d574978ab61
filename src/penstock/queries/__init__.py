"""The books about queries: the parameter relation Q, names, identical rows, subscribers."""
