package docker

// This file reads what a host has for containers with GPUs, and has NVIDIA's own
// toolkit set up what is missing where a bundle allows it. It installs nothing.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/system"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// Where things are below the root.
var (
	binaries = []string{"usr/bin", "usr/local/bin", "usr/local/nvidia/toolkit"}
	gpuSpecs = []string{"etc/cdi", "var/run/cdi", "run/cdi"}
	pids     = []string{"var/run/docker.pid", "run/docker.pid"}
)

const (
	toolkit = "nvidia-ctk"
	hook    = "nvidia-container-runtime-hook"
	version = "proc/driver/nvidia/version"

	maxFile = 1 << 20 // of a spec, in bytes
)

// Engine gives how it is set up.
type Engine interface {
	Info(ctx context.Context) (system.Info, error)
}

// Host is where the engine runs.
type GPUHost struct {
	Root   string // folder of the host's files; empty: the engine runs elsewhere
	Engine Engine
}

// Facts reads what there is.
func (h GPUHost) Facts(ctx context.Context) (spec.GPUFacts, error) {
	i, err := h.Engine.Info(ctx)
	if err != nil {
		return spec.GPUFacts{}, err
	}
	return h.FactsOf(i)
}

// FactsOf is Facts with what the engine has told already.
func (h GPUHost) FactsOf(i system.Info) (spec.GPUFacts, error) {
	_, runtime := i.Runtimes["nvidia"]
	f := spec.GPUFacts{Runtime: runtime, EngineCDI: len(i.CDISpecDirs) > 0}
	if h.Root == "" {
		return f, nil
	}
	raw, err := head(filepath.Join(h.Root, version))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f.Driver = driverOf(raw)
	devices, err := filepath.Glob(filepath.Join(h.Root, "dev/nvidia[0-9]*"))
	if err != nil {
		return f, err
	}
	f.Devices = len(devices)
	f.Toolkit, f.Hook = h.binary(toolkit) != "", h.binary(hook) != ""
	f.CDI, err = h.kinds()
	return f, err
}

// driverOf reads the version in lines such as "NVRM version: NVIDIA UNIX x86_64 Kernel
// Module  535.54.03  Tue ...".
func driverOf(raw []byte) string {
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	for _, word := range strings.Fields(string(line)) {
		if digits.MatchString(word) {
			return word
		}
	}
	return ""
}

var digits = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`)

// binary is the path of a program; empty if it is not there.
func (h GPUHost) binary(name string) string {
	for _, dir := range binaries {
		path := filepath.Join(h.Root, dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// kindLine is the line of a spec in YAML that names the kind of its devices.
var kindLine = regexp.MustCompile(`(?m)^"?kind"?\s*:\s*["']?([a-zA-Z0-9._/-]+)`)

// kindOf is the kind of devices that a spec describes; empty if it says none.
func kindOf(name string, raw []byte) string {
	if filepath.Ext(name) == ".json" {
		var spec struct {
			Kind string `json:"kind"`
		}
		if json.Unmarshal(raw, &spec) != nil {
			return ""
		}
		return spec.Kind
	}
	if m := kindLine.FindSubmatch(raw); m != nil {
		return string(m[1])
	}
	return ""
}

// kinds lists the kinds of devices that the host's CDI specs describe. Engines read
// them whole; a spec that they refuse fails at the start of a container.
func (h GPUHost) kinds() ([]string, error) {
	var out []string
	for _, dir := range gpuSpecs {
		entries, err := os.ReadDir(filepath.Join(h.Root, dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext != ".yaml" && ext != ".json" || !e.Type().IsRegular() {
				continue
			}
			raw, err := head(filepath.Join(h.Root, dir, e.Name()))
			if err != nil {
				return nil, err
			}
			if kind := kindOf(e.Name(), raw); kind != "" {
				out = append(out, kind)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func head(path string) (raw []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// Bounds of setting up.
const (
	setupWithin  = time.Minute
	reloadWithin = 10 * time.Second
	reloadPoll   = 100 * time.Millisecond
)

// Setup has the toolkit set up one of the things that GPUNeed names.
func (h GPUHost) Setup(ctx context.Context, what string) error {
	ctk := h.binary(toolkit)
	if h.Root == "" || ctk == "" {
		return errors.New("the NVIDIA Container Toolkit is not on this host")
	}
	if what == spec.GPUSetupCDI {
		return run(ctx, ctk, "cdi", "generate", "--output="+filepath.Join(h.Root, "etc/cdi/nvidia.yaml"))
	}
	if err := run(ctx, ctk, "runtime", "configure", "--runtime=docker", "--config="+filepath.Join(h.Root, "etc/docker/daemon.json")); err != nil {
		return err
	}
	return h.reload(ctx)
}

func run(ctx context.Context, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(out[max(0, len(out)-400):]))
	}
	return nil
}

// reload has the engine read its settings again, which stops no container, and waits
// for the runtime.
func (h GPUHost) reload(ctx context.Context) error {
	pid := 0
	for _, file := range pids {
		if raw, err := head(filepath.Join(h.Root, file)); err == nil {
			if pid, err = strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && pid > 1 {
				break
			}
		}
	}
	if pid <= 1 {
		return errors.New("the engine's process is not known (no docker.pid): restart the engine, so that it has the runtime nvidia")
	}
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		return fmt.Errorf("have the engine read its settings again: %w", err)
	}
	for end := time.Now().Add(reloadWithin); time.Now().Before(end); {
		i, err := h.Engine.Info(ctx)
		if err != nil {
			return err
		}
		if _, there := i.Runtimes["nvidia"]; there {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reloadPoll):
		}
	}
	return errors.New("the engine read its settings again and has no runtime nvidia: see its log, or restart it")
}
