"""The three-way merge of branches, with typed conflicts."""
