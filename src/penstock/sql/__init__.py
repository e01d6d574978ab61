"""The SQL front end: text to statements to logical plans. No other package reads SQL text."""
