// Package dockerapi talks to one container engine: the Docker API with a deadline
// on every call, errors sorted into what they mean, and the stream of events. It
// decides nothing, repeats nothing and caches nothing.
//
// The version of the API is negotiated at the first call that gets through, so
// that an engine may be away when the agent starts. A call whose outcome is not
// known is an [Unknown] error: check the engine before asking for it again.
package dockerapi
