"""How messages travel: clients in this process, or on machines of their own.

It moves bytes between the server and the parties. It must not know methods, nor what a message says.
"""
