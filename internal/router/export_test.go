package router

// InFlight is how many requests are in the router now.
func (r *Router) InFlight() int64 { return r.inFlight.Load() }
