"""Studies that use the engine and write down what they found."""
