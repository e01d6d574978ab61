"""The SQL front end: text to statements to logical plans. User SQL goes nowhere else."""
