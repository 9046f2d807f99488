package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/docker/dockertest"
)

// bench is one run of the program on one engine.
type bench struct {
	*host
	o      options
	ctx    context.Context
	dir    string
	d      *dockertest.Daemon
	api    *client.Client
	starts *starts
	report report
	began  time.Time
}

// t0 readies the engine.
func (b *bench) t0() {
	b.api = b.d.Client()
	importImage(b.host, b.api)
	b.starts = hearStarts(b.api)
	b.Cleanup(b.starts.stop)
	info, err := b.api.Info(b.ctx, client.InfoOptions{})
	b.ok(err)
	b.report.Engine = fmt.Sprintf("%s, storage %s", info.Info.ServerVersion, info.Info.Driver)
}

// spent is what a step took, in milliseconds. CPU of the engine is that of
// dockerd alone, in steps of 10 ms.
type spent struct {
	Wall    float64 `json:"wallMs"`
	Client  float64 `json:"clientCpuMs"`
	Engine  float64 `json:"engineCpuMs"`
	Running float64 `json:"runningMs,omitempty"` // until the last container had started
	Calls   int64   `json:"calls,omitempty"`
	Writes  int64   `json:"writes,omitempty"`
}

// measure runs f. Starts is how many containers it starts, 0 if that is not of
// interest; children adds the CPU of processes that f waits for.
func (b *bench) measure(starts int, f func()) spent {
	b.starts.reset()
	engine, self, began := b.cpuOf(b.d.PID()), ownCPU(), time.Now()
	f()
	s := spent{Wall: millis(time.Since(began)), Client: millis(ownCPU() - self)}
	s.Engine = millis(b.cpuOf(b.d.PID()) - engine)
	if starts > 0 {
		s.Running = millis(b.starts.await(b.host, starts).Sub(began))
	}
	return s
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ownCPU is the CPU time of this process and of its children that ended.
func ownCPU() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			panic(failure(err.Error()))
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// cpuOf is the CPU time of a process.
func (b *bench) cpuOf(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	b.ok(err)
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	user, err := strconv.ParseInt(fields[11], 10, 64)
	b.ok(err)
	system, err := strconv.ParseInt(fields[12], 10, 64)
	b.ok(err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// starts hears of containers that start.
type starts struct {
	stop context.CancelFunc
	mu   sync.Mutex
	ids  map[string]bool
	last time.Time
}

func hearStarts(api *client.Client) *starts {
	ctx, stop := context.WithCancel(context.Background())
	s := &starts{stop: stop, ids: map[string]bool{}}
	said := api.Events(ctx, client.EventsListOptions{Filters: make(client.Filters).Add("type", "container").Add("event", "start")})
	go func() {
		for {
			select {
			case e := <-said.Messages:
				s.mu.Lock()
				s.ids[e.Actor.ID] = true
				s.last = time.Now()
				s.mu.Unlock()
			case <-said.Err:
				return
			}
		}
	}()
	return s
}

func (s *starts) reset() { s.mu.Lock(); defer s.mu.Unlock(); clear(s.ids) }

// await gives the instant at which the last of n containers had started.
func (s *starts) await(t *host, n int) time.Time {
	for range 500 {
		s.mu.Lock()
		have, last := len(s.ids), s.last
		s.mu.Unlock()
		if have == n {
			return last
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d containers started; %d were to", len(s.ids), n)
	return time.Time{}
}

// wipe removes all containers and networks of the engine, which is ours alone.
func (b *bench) wipe() {
	list, err := b.api.ContainerList(b.ctx, client.ContainerListOptions{All: true})
	b.ok(err)
	var g errgroup.Group
	g.SetLimit(8)
	for _, c := range list.Items {
		g.Go(func() error {
			_, err := b.api.ContainerRemove(b.ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return err
		})
	}
	b.ok(g.Wait())
	_, err = b.api.NetworkPrune(b.ctx, client.NetworkPruneOptions{})
	b.ok(err)
}

// median of one figure.
func median(all []spent, of func(spent) float64) float64 {
	var v []float64
	for _, s := range all {
		v = append(v, of(s))
	}
	slices.Sort(v)
	if len(v) == 0 {
		return 0
	}
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// sorted names of a table.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
