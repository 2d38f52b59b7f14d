"""The wake adapters of Interlock, and the loading of adapters from plugins."""
