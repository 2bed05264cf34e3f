"""What both ends of the wire agree on: structs, the call table, errors and limits."""
