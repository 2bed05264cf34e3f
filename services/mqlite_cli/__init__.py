"""The command line `mqlite`: an embedded store or a broker from a shell."""
