package dockerapi

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// Ping asks for a sign of life.
func (e *Engine) Ping(ctx context.Context) error {
	_, err := requestAll(ctx, e, e.timeout, "ping", e.api.Ping, client.PingOptions{})
	return err
}

// aliveWithin bounds a sign of life. An engine that lives gives one without a lock,
// however much it has to do.
const aliveWithin = 3 * time.Second

// Alive asks for a sign of life, for calls that a person waits for: an engine that
// hangs is told of within three seconds, not after the deadline of the call.
func (e *Engine) Alive(ctx context.Context) error {
	_, err := requestAll(ctx, e, min(e.timeout, aliveWithin), "ask for a sign of life", e.api.Ping, client.PingOptions{})
	return err
}

// Version says which engine this is.
type Version struct {
	Engine     string // of the server, such as 20.10.24
	API        string // the version that both sides agreed on
	APIMin     string // of the server
	APIMax     string // of the server
	OS         string
	Arch       string
	Components map[string]string // name to version: containerd, runc, ...
}

// Version asks which engine this is.
func (e *Engine) Version(ctx context.Context) (Version, error) {
	v, err := requestAll(ctx, e, e.timeout, "ask for the version", e.api.ServerVersion, client.ServerVersionOptions{})
	if err != nil {
		return Version{}, err
	}
	out := Version{Engine: v.Version, API: e.api.ClientVersion(), APIMin: v.MinAPIVersion, APIMax: v.APIVersion,
		OS: v.Os, Arch: v.Arch, Components: map[string]string{}}
	for _, c := range v.Components {
		out.Components[c.Name] = c.Version
	}
	return out, nil
}

// Info says how the engine is set up.
type Info struct {
	ID             string // of the engine
	ServerVersion  string
	StorageDriver  string
	CgroupDriver   string // cgroupfs or systemd
	CgroupVersion  string // 1 or 2
	DataRoot       string // folder of images, containers and volumes
	Runtimes       []string
	DefaultRuntime string
	CPUs           int
	MemoryBytes    int64
	Warnings       []string
	Raw            system.Info // as the engine gave it
}

// Info asks how the engine is set up.
func (e *Engine) Info(ctx context.Context) (Info, error) {
	r, err := requestAll(ctx, e, e.timeout, "ask for the set-up", e.api.Info, client.InfoOptions{})
	if err != nil {
		return Info{}, err
	}
	i := r.Info
	return Info{ID: i.ID, ServerVersion: i.ServerVersion, StorageDriver: i.Driver, CgroupDriver: i.CgroupDriver,
		CgroupVersion: i.CgroupVersion, DataRoot: i.DockerRootDir, Runtimes: slices.Sorted(maps.Keys(i.Runtimes)),
		DefaultRuntime: i.DefaultRuntime, CPUs: i.NCPU, MemoryBytes: i.MemTotal, Warnings: i.Warnings, Raw: i}, nil
}
