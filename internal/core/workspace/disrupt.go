package workspace

// An action disrupts if it stops or replaces what runs and serves. What ends a
// replacement that has begun does not: nothing would be gained by leaving it half
// done, and going back or clearing away is part of it.

// Disrupts reports whether it begins the replacement of a container that runs.
func (a Create) Disrupts() bool { return a.Replaces != "" && a.Live }

// Disrupts reports whether it stops the container first.
func (a Start) Disrupts() bool { return a.Restart != "" }

// Disrupts reports whether it stops what is in use, and nobody ordered that.
func (a Stop) Disrupts() bool { return !a.Replaced && !a.Ordered }

// Disrupts reports whether it stops a container that still has its place.
func (a Swap) Disrupts() bool { return a.Live }

// Disrupts is true: nothing is left.
func (a Remove) Disrupts() bool { return true }
