"""The main job on real input, checked and timed: one service under load, forked in three ways."""
