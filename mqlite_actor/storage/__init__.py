"""The store: the only floor that imports apsw or holds SQL. Everything here is synchronous."""
