"""SQL of people in the databases of services, within limits: statements, tables, and what differs between schemas."""
