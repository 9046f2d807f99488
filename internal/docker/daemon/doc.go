// Package daemon talks to one container engine: the Docker API with a deadline
// on every call, errors sorted into what they mean, and the stream of events. It
// decides nothing.
package daemon

import (
	_ "github.com/moby/moby/api/pkg/stdcopy"
	_ "github.com/moby/moby/api/types/container"
	_ "github.com/moby/moby/client"
)
