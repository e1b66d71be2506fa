"""Records: data from outside (JSON values, Python values) as typed rows of a table. Pure; shared by every way in."""
