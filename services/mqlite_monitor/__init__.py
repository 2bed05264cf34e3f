"""The live monitor behind `mqlite top`: a broker or a queue file in a terminal."""
