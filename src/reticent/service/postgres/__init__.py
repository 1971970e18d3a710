"""The PostgreSQL port: wire protocol version 3 over the same tables, tokens and limits as the HTTP service."""
