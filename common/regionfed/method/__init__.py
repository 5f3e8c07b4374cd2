"""The regional method as pure functions over flat float32 vectors (algorithm specification).

Nothing here knows of Flower, files or clocks: the same functions run in a simulation, on a
coordinator and on a device. Norms, means and distances accumulate in float64.

| question | module |
|---|---|
| how do vectors get averaged, clipped, compared? | `vectors` |
| how much does a region disagree, and how much of that is chance? | `conflict` |
| how strongly is a region personalised? | `strength` |
| in which direction, and what must the clients do for it? | `strategies` |
| which strategy does a region get this round? | `router` |
| how far along the direction, and does it help at all? | `rho` |
| what does the global server do with the mean update? | `server_opt` |
| what is served in the end? | `compose` |
| how does a single user weigh its own correction? | `user` |
| is a global model enough? | `diagnose`, on the test in `dispersion` |
"""
