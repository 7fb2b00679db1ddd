// Package worlds is what simulated worlds came to: one World a seed, their Total, and the table that docs/verification.md
// shows of them.
//
// The simulation itself is nothing but tests. What it counts leaves it here, as lines of a file (internal/evidence), so that
// a run that was interrupted goes on where it stopped, and so that internal/simulation/summary and replay can read it.
package worlds
