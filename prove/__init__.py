"""Large proofs over real servers: forks are made under load, and an oracle computes what each must contain.

A tool of the project, no part of the product. `script/prove pitr --trials 200 --seed 1`, `script/prove now`.
"""
