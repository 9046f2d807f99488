package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// soakKill is after how many changes of a soak the server is killed in the middle of one,
// and started again at the same address.
const soakKill = 10

// Soak is a fleet that is changed again and again, with what that leaves behind: the
// second third of the changes beside the last, so that what only the first changes of a
// server cost is in neither.
type Soak struct {
	Changes []Worn `json:"changes"`
	Second  Third  `json:"second"`
	Last    Third  `json:"last"`
}

// Worn is a server after one change. Sizes are in bytes.
type Worn struct {
	Seconds    float64 `json:"seconds"`
	CPU        float64 `json:"serverCpuMillisPerHost"` // nothing where it was killed
	Killed     bool    `json:"killed,omitempty"`
	PSS        int64   `json:"serverPssBytes"`
	Goroutines int64   `json:"serverGoroutines"`
	Log        int64   `json:"logBytes"`
	Blobs      int64   `json:"blobBytes"`
	Pruned     int64   `json:"logPrunedSequence"` // the record behind which the log begins
}

// Third sums up changes: the medians of those in which nothing was killed, the medians of
// the log and of the blobs, the least memory and the most goroutines after one, and what the disk grew by with each.
type Third struct {
	Seconds        float64 `json:"medianSeconds"`
	CPU            float64 `json:"medianServerCpuMillisPerHost"`
	PSS            int64   `json:"leastServerPssBytes"`
	Goroutines     int64   `json:"mostServerGoroutines"`
	LogPerChange   int64   `json:"logBytesPerChange"`
	BlobsPerChange int64   `json:"blobBytesPerChange"`
	Log            int64   `json:"medianLogBytes"`
	Blobs          int64   `json:"medianBlobBytes"`
}

// soak makes the changes of a soak.
func (b *bench) soak() error {
	if b.o.Soak == 0 {
		return nil
	}
	s := &Soak{}
	for i := range b.o.Soak {
		began := time.Now()
		c, err := b.fleet.release(false)
		if err != nil {
			return err
		}
		killed := (i+1)%soakKill == 0
		b.killIn(killed)
		m, err := b.measure(c)
		if err != nil {
			return err
		}
		w, err := b.worn()
		if err != nil {
			return err
		}
		if w.Seconds, w.Killed = m.Seconds, killed; !killed {
			w.CPU = m.ServerMillisPerHost
		}
		s.Changes = append(s.Changes, w)
		if err := b.settle(time.Until(began.Add(b.o.SoakEvery))); err != nil {
			return err
		}
	}
	n := len(s.Changes)
	s.Second, s.Last = third(s.Changes[n/3:2*n/3]), third(s.Changes[2*n/3:])
	b.report.Soak = s
	return nil
}

func third(changes []Worn) (t Third) {
	var seconds, cpu, log, blobs []float64
	first, last := changes[0], changes[len(changes)-1]
	t.PSS = first.PSS
	for _, w := range changes {
		if !w.Killed {
			seconds, cpu = append(seconds, w.Seconds), append(cpu, w.CPU)
		}
		log, blobs = append(log, float64(w.Log)), append(blobs, float64(w.Blobs))
		t.PSS, t.Goroutines = min(t.PSS, w.PSS), max(t.Goroutines, w.Goroutines)
	}
	t.Seconds, t.CPU, t.Log, t.Blobs = median(seconds), median(cpu), int64(median(log)), int64(median(blobs))
	if n := int64(len(changes) - 1); n > 0 {
		t.LogPerChange, t.BlobsPerChange = (last.Log-first.Log)/n, (last.Blobs-first.Blobs)/n
	}
	return t
}

// auditPoll is how often a soak asks how far the running audit is.
const auditPoll = 50 * time.Millisecond

// settle waits for a time, and until the running audit has read all of the log: it has a
// tenth of a processor, and nothing is pruned that it has not read.
func (b *bench) settle(least time.Duration) error {
	if err := b.pause(least); err != nil {
		return err
	}
	for {
		values, err := b.server.metrics(b.ctx)
		if err != nil || values["steady_audit_sequence"] >= values["steady_log_sequence"] {
			return err
		}
		if err := b.pause(auditPoll); err != nil {
			return err
		}
	}
}

// killIn has the server killed once half of the hosts are there in the next change, and
// the release is pushed, and started again.
func (b *bench) killIn(kill bool) {
	b.crowd.mu.Lock()
	defer b.crowd.mu.Unlock()
	b.crowd.half = nil
	if kill {
		pushed := make(chan struct{})
		b.pushed = pushed
		b.crowd.half = func() {
			b.restarts.Go(func() {
				<-pushed // a small fleet may be there before the answer is
				b.restart()
			})
		}
	}
}

// restart kills the server and starts it again at its address.
func (b *bench) restart() {
	old := b.server
	old.planned.Store(true)
	old.End(syscall.SIGKILL, stopIn)
	old.op.Close()
	next, err := startServer(b.ctx, b.o.Exe, b.dir, b.fleet.rootFile(), strings.TrimPrefix(old.url, "https://"), b.o.KeepLog)
	if err != nil {
		b.crowd.stop(fmt.Errorf("the server was killed and did not come back: %w", err))
		return
	}
	b.server = next
	b.watch(next)
}

// worn measures the server at rest after a change.
func (b *bench) worn() (w Worn, err error) {
	mem, err := memoryOf(b.server.PID())
	if err != nil {
		return w, err
	}
	w.PSS = mem.pss
	values, err := b.server.metrics(b.ctx)
	if err != nil {
		return w, err
	}
	w.Goroutines, w.Log = int64(values["steady_goroutines"]), int64(values["steady_log_bytes"])
	w.Pruned = int64(values["steady_log_pruned_sequence"])
	err = filepath.WalkDir(filepath.Join(b.dir, "server", "store", "blobs"), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			w.Blobs += info.Size()
		}
		return err
	})
	return w, err
}

// metrics reads the server's metrics that have no labels.
func (s *server) metrics(ctx context.Context) (map[string]float64, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.ca)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the server's metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server's metrics: %s", resp.Status)
	}
	values := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(resp.Body, 16<<20))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	return values, lines.Err()
}
