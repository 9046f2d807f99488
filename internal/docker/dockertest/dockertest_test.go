package dockertest_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// start runs a container of busybox and gives its ID.
func start(t *testing.T, d *dockertest.Daemon, o client.ContainerCreateOptions) string {
	t.Helper()
	if o.Config.Image == "" {
		o.Config.Image = d.Busybox(t)
	}
	made := testkit.Value(d.Client().ContainerCreate(t.Context(), o))(t)
	testkit.Value(d.Client().ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}))(t)
	return made.ID
}

// output waits for the end of a container and gives what it printed.
func output(t *testing.T, d *dockertest.Daemon, id string) string {
	t.Helper()
	w := d.Client().ContainerWait(t.Context(), id, client.ContainerWaitOptions{})
	select {
	case <-w.Result:
	case err := <-w.Error:
		t.Fatal(err)
	}
	r := testkit.Value(d.Client().ContainerLogs(t.Context(), id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true}))(t)
	defer r.Close()
	var out bytes.Buffer
	testkit.Value(stdcopy.StdCopy(&out, &out, r))(t)
	return out.String()
}

func TestNetworksNamesAndPorts(t *testing.T) {
	for _, c := range []struct {
		name   string
		engine func(testing.TB) *dockertest.Daemon
	}{
		{"shared", dockertest.Engine},
		{"private beside the shared one and its firewall", dockertest.Private},
		{"shared after a private one", dockertest.Engine},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.engine(t)
			n := d.Namespace(t)
			testkit.Value(d.Client().NetworkCreate(t.Context(), n.Name("net"), client.NetworkCreateOptions{}))(t)
			on := &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{n.Name("net"): {Aliases: []string{"web"}}}}
			port := network.MustParsePort("8080/tcp")
			id := start(t, d, client.ContainerCreateOptions{Name: n.Name("server"), NetworkingConfig: on,
				Config: &container.Config{Cmd: []string{"sh", "-c", "echo hello >/www/index.html; exec httpd -f -p 8080 -h /www"},
					ExposedPorts: network.PortSet{port: {}}},
				HostConfig: &container.HostConfig{PortBindings: network.PortMap{port: {{HostIP: netip.MustParseAddr("127.0.0.1")}}}}})
			client2 := start(t, d, client.ContainerCreateOptions{Name: n.Name("client"), NetworkingConfig: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{n.Name("net"): {}}},
				Config: &container.Config{Cmd: []string{"sh", "-c", "for i in $(seq 1000); do timeout 2 wget -qO- http://web:8080/ && exit; usleep 100000; done 2>/dev/null"}}})
			if got := output(t, d, client2); got != "hello\n" {
				t.Errorf("by name of the network: %q", got)
			}
			info := testkit.Value(d.Client().ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}))(t)
			published := info.Container.NetworkSettings.Ports[port]
			if len(published) == 0 {
				t.Fatal("no port published")
			}
			ip := info.Container.NetworkSettings.Networks[n.Name("net")].IPAddress
			for _, addr := range []string{"127.0.0.1:" + published[0].HostPort, net.JoinHostPort(ip.String(), "8080")} {
				r := testkit.Value(http.Get("http://" + addr))(t)
				body, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || string(body) != "hello\n" {
					t.Errorf("%s: %q %v", addr, body, err)
				}
			}
		})
	}
}

func TestDefaultBridge(t *testing.T) {
	d := dockertest.Engine(t)
	n := d.Namespace(t)
	id := start(t, d, client.ContainerCreateOptions{Name: n.Name("c"), Config: &container.Config{Cmd: []string{"ip", "-4", "addr", "show", "eth0"}}})
	if got := output(t, d, id); !strings.Contains(got, "inet ") {
		t.Errorf("no address on the default bridge: %q", got)
	}
}

func TestNamespaceCleansUp(t *testing.T) {
	d := dockertest.Engine(t)
	var prefix string
	t.Run("inner", func(t *testing.T) {
		n := d.Namespace(t)
		prefix = n.Prefix
		start(t, d, client.ContainerCreateOptions{Name: n.Name("c"), Config: &container.Config{Cmd: []string{"sleep", "1000"}}})
		start(t, d, client.ContainerCreateOptions{Config: &container.Config{Cmd: []string{"sleep", "1000"}, Labels: map[string]string{"by": n.Prefix}}})
		testkit.Value(d.Client().NetworkCreate(t.Context(), n.Name("n"), client.NetworkCreateOptions{}))(t)
		testkit.Value(d.Client().VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: n.Name("v")}))(t)
		testkit.Value(d.Client().ImageTag(t.Context(), client.ImageTagOptions{Source: d.Busybox(t), Target: n.Name("i")}))(t)
	})
	ctx := t.Context()
	containers, err := d.Client().ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil || len(containers.Items) != 0 {
		t.Errorf("containers left: %v %v", containers.Items, err)
	}
	networks, err := d.Client().NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("name", prefix)})
	if err != nil || len(networks.Items) != 0 {
		t.Errorf("networks left: %v %v", networks.Items, err)
	}
	volumes, err := d.Client().VolumeList(ctx, client.VolumeListOptions{})
	if err != nil || len(volumes.Items) != 0 {
		t.Errorf("volumes left: %v %v", volumes.Items, err)
	}
	if _, err := d.Client().ImageInspect(ctx, prefix+"i"); err == nil {
		t.Error("image left")
	}
	if _, err := d.Client().ImageInspect(ctx, d.Busybox(t)); err != nil {
		t.Error("the image of busybox went too:", err)
	}
}

func TestPrivateEngineBreaksAndRecovers(t *testing.T) {
	d := dockertest.Private(t)
	ping := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := d.Client().Ping(ctx, client.PingOptions{})
		return err
	}
	d.Stop()
	if err := ping(50 * time.Millisecond); err == nil {
		t.Error("a frozen engine answered")
	}
	d.Continue()
	if err := ping(time.Minute); err != nil {
		t.Error(err)
	}
	id := start(t, d, client.ContainerCreateOptions{Config: &container.Config{Cmd: []string{"sleep", "1000"}, StopSignal: "KILL"}})
	d.Kill()
	if err := ping(time.Minute); err == nil {
		t.Error("a killed engine answered")
	}
	d.Start()
	if _, err := d.Client().ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err != nil {
		t.Error("the container is gone after a crash:", err)
	}
	before := d.PID()
	d.Restart()
	if d.PID() == before {
		t.Error("the same process after a restart")
	}
}

func TestProxy(t *testing.T) {
	d := dockertest.Engine(t)
	n := d.Namespace(t)
	p := d.Proxy()
	api := testkit.Value(client.New(client.WithHost("unix://" + p.Socket())))(t)
	create := func(name string) error {
		_, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: n.Name(name), Config: &container.Config{Image: d.Busybox(t), Cmd: []string{"cat"}, OpenStdin: true, StdinOnce: true}})
		return err
	}
	testkit.Must(t, create("a"))
	if got := p.Writes(); len(got) != 1 || got[0].Path != "/containers/create" || !bytes.Contains(got[0].Body, []byte("busybox")) {
		t.Errorf("writes %+v", got)
	}
	exists := func(name string) bool {
		_, err := d.Client().ContainerInspect(t.Context(), n.Name(name), client.ContainerInspectOptions{})
		return err == nil
	}
	on := func(fate dockertest.Outcome) func(dockertest.Request) dockertest.Outcome {
		return func(r dockertest.Request) dockertest.Outcome {
			if r.Write == 0 {
				return dockertest.Pass
			}
			return fate
		}
	}
	for _, c := range []struct {
		name          string
		before, after func(dockertest.Request) dockertest.Outcome
		exists        bool
	}{
		{"dropped-before", on(dockertest.Drop), nil, false},
		{"dropped-after", nil, on(dockertest.Drop), true},
		{"failed-before", on(dockertest.Fail), nil, false},
		{"failed-after", nil, on(dockertest.Fail), true},
	} {
		p.Before(c.before)
		p.After(c.after)
		if err := create(c.name); err == nil {
			t.Errorf("%s: no error", c.name)
		}
		if exists(c.name) != c.exists {
			t.Errorf("%s: exists %v, want %v", c.name, exists(c.name), c.exists)
		}
	}
	p.Before(nil)
	p.After(nil)

	t.Run("hang", func(t *testing.T) {
		p.Set(dockertest.Hang)
		done := make(chan error, 1)
		go func() { done <- create("hung") }()
		for exists("hung") { // it does not, and the request stays with the proxy
			t.Fatal("the request went through")
		}
		p.Set(dockertest.Pass)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("hijacked", func(t *testing.T) { attach(t, api, n.Name("a")) })
}

// attach sends a line through cat and closes its own direction only.
func attach(t *testing.T, api *client.Client, id string) {
	con := testkit.Value(api.ContainerAttach(t.Context(), id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true}))(t)
	defer con.Close()
	testkit.Value(api.ContainerStart(t.Context(), id, client.ContainerStartOptions{}))(t)
	testkit.Value(io.WriteString(con.Conn, "through\n"))(t)
	testkit.Must(t, con.CloseWrite())
	var out bytes.Buffer
	testkit.Value(stdcopy.StdCopy(&out, &out, con.Reader))(t)
	if out.String() != "through\n" {
		t.Errorf("got %q", out.String())
	}
}

// TestNothingIsLeftBehind kills a test process in the middle of its work: the
// engine and the container in it end with it.
func TestNothingIsLeftBehind(t *testing.T) {
	const marker = "STEADY_DOCKERTEST_VICTIM"
	if file := os.Getenv(marker); file != "" {
		d := dockertest.Engine(t)
		start(t, d, client.ContainerCreateOptions{Config: &container.Config{Cmd: []string{"sleep", "100000"}}})
		testkit.Must(t, os.WriteFile(file, nil, 0o600))
		<-t.Context().Done() // for ever
	}
	dockertest.Engine(t)
	file := filepath.Join(t.TempDir(), "ready")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestNothingIsLeftBehind$")
	cmd.Env = append(os.Environ(), marker+"="+file, "STEADY_DOCKERTEST=")
	testkit.Must(t, cmd.Start())
	testkit.Eventually(t, "the test to be ready", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	// A child of an engine has its words, and that of a container those of runc, until
	// each is the program that it is to be.
	testkit.Eventually(t, "two engines and a container", func() bool {
		all := processes(t)
		return strings.Count(all, "dockerd --") == 2 && strings.Contains(all, "sleep 100000")
	})
	testkit.Must(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait() // killed
	testkit.Eventually(t, "one engine, and no container", func() bool {
		all := processes(t)
		return !strings.Contains(all, "100000") && strings.Count(all, "dockerd --") == 1
	})
}

func processes(t *testing.T) string {
	t.Helper()
	out := testkit.Value(exec.Command("ps", "-eo", "args").Output())(t)
	return string(out)
}

func TestUnknownNamesAreAnswered(t *testing.T) {
	d := dockertest.Engine(t)
	n := d.Namespace(t)
	testkit.Value(d.Client().NetworkCreate(t.Context(), n.Name("net"), client.NetworkCreateOptions{}))(t)
	id := start(t, d, client.ContainerCreateOptions{Name: n.Name("c"), Config: &container.Config{Cmd: []string{"nslookup", "nobody"}},
		NetworkingConfig: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{n.Name("net"): {}}}})
	if got := output(t, d, id); !strings.Contains(got, "NXDOMAIN") {
		t.Errorf("got %q", got)
	}
}

func TestRegistryKeepsWhatIsPushed(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	d := dockertest.Engine(t)
	h := dockertest.Registry(t)
	ref, digest := h.Push(t, d, d.Busybox(t), "busybox:1")
	if !strings.HasPrefix(digest, "sha256:") {
		t.Errorf("digest %q", digest)
	}
	if _, err := d.Client().ImageInspect(t.Context(), ref); err == nil {
		t.Error("the engine still has the tag")
	}
	r := testkit.Value(http.NewRequest(http.MethodGet, "http://"+h.Addr+"/v2/busybox/manifests/1", nil))(t)
	r.SetBasicAuth(h.User, h.Password)
	got := testkit.Value(http.DefaultClient.Do(r))(t)
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		t.Errorf("%s", got.Status)
	}
}
