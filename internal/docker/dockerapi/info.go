package dockerapi

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// aliveWithin bounds a sign of life. An engine that lives gives one without a lock,
// however much it has to do.
const aliveWithin = 3 * time.Second

// Alive asks for a sign of life, for calls that a person waits for: an engine that
// hangs is reported within three seconds, not after the deadline of the call.
func (e *Engine) Alive(ctx context.Context) error {
	_, err := requestAll(ctx, e, min(e.timeout, aliveWithin), "ask for a sign of life", e.api.Ping, client.PingOptions{})
	return err
}

// Version is which engine this is.
type Version struct {
	Engine   string // of the server, such as 20.10.24
	API      string // the version that both sides agreed on
	OS, Arch string
}

// Version asks which engine this is.
func (e *Engine) Version(ctx context.Context) (Version, error) {
	v, err := requestAll(ctx, e, e.timeout, "ask for the version", e.api.ServerVersion, client.ServerVersionOptions{})
	if err != nil {
		return Version{}, err
	}
	return Version{Engine: v.Version, API: e.api.ClientVersion(), OS: v.Os, Arch: v.Arch}, nil
}

// Info asks how the engine is set up.
func (e *Engine) Info(ctx context.Context) (system.Info, error) {
	r, err := requestAll(ctx, e, e.timeout, "ask for the set-up", e.api.Info, client.InfoOptions{})
	return r.Info, err
}
