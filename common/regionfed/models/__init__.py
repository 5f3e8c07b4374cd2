"""Models as differentiable black boxes over one flat vector."""
