"""What this machine has: installed PostgreSQL, processes of the kernel, endpoints with TLS or without. No backend."""
