"""Write Interlock's entries into the configuration files of clients, and remove them again."""
