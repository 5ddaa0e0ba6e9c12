//! A call: what follows from what happened (pure), and the task that carries it out.
