"""Deep Q-learning: network, replay buffer, training in simulation, learning online."""
