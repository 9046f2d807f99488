// Command process keeps processes running: it starts what is desired, starts it again after
// it died, and stops what is desired no more. It needs Linux.
//
//	go run ./reconcile/examples/process
//
// Kill the process that it names with kill -9, and another one runs within a second. Interrupt
// the command, and the process goes on: the next run finds it.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// process is what is desired of one, and what is observed.
type process struct {
	PID  int      `json:"pid,omitempty"` // observed; 0 if none runs
	Args []string `json:"args"`
}

// What can be done to a process.
type (
	start struct{ Args []string }
	stop  struct{ PID int }
)

func (start) ActionName() string { return "start" }
func (stop) ActionName() string  { return "stop" }

// processes reconciles them. Each is found by a variable in its environment, which is there
// from its first instant: no crash of ours comes between a process and a note of it.
type processes struct{ dir string }

func (p processes) mark(r reconcile.Ref) string {
	return "RECONCILE_PROCESS=" + filepath.Join(p.dir, r.ID)
}

func (p processes) Observe(_ context.Context, r reconcile.Resource[process]) (process, error) {
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range found {
		env, err := os.ReadFile(file) // of others it fails, and these are not ours
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), p.mark(r.Ref)) {
			continue
		}
		args, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || len(args) == 0 { // it ends
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		return process{pid, strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")}, err
	}
	return process{}, err
}

func (p processes) Decide(v reconcile.View[process, process]) reconcile.Decision {
	is, want := v.Observed, v.Resource.Desired
	switch {
	case v.Resource.Delete && is.PID == 0:
		return reconcile.IsConverged(reconcile.Because("stopped", ""))
	case v.Resource.Delete:
		return reconcile.Do(stop{is.PID}, reconcile.Because("unwanted", "it is not to run any more"))
	case is.PID == 0:
		return reconcile.Do(start{want.Args}, reconcile.Because("not-running", "no such process runs"))
	case !slices.Equal(is.Args, want.Args):
		return reconcile.Do(stop{is.PID}, reconcile.Because("other-arguments", "it runs with other arguments"))
	}
	return reconcile.IsConverged(reconcile.Because("running", ""))
}

func (p processes) Act(ctx context.Context, r reconcile.Resource[process], a reconcile.Action) error {
	is, err := p.Observe(ctx, r)
	if err != nil {
		return err
	}
	switch a := a.(type) {
	case start:
		if is.PID != 0 {
			return nil
		}
		cmd := exec.Command(a.Args[0], a.Args[1:]...)
		cmd.Env = append(os.Environ(), p.mark(r.Ref))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of ours is not its own
		if err := cmd.Start(); err != nil {
			return reconcile.Terminal("cannot-start", err)
		}
		go func() { _ = cmd.Wait() }() // that it ended is seen by the next Observe
	case stop:
		if is.PID == a.PID { // and not another one by now
			return syscall.Kill(a.PID, syscall.SIGTERM)
		}
	}
	return nil
}

// open makes a controller of processes, with its rows in dir.
func open(ctx context.Context, dir string) (*reconcile.Controller, *sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "rows.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlite.Open(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	c := reconcile.New(store)
	return c, db, reconcile.Register(c, "process", processes{dir}, reconcile.Every(time.Second))
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	dir := filepath.Join(os.TempDir(), "reconcile-process")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Fatal(err)
	}
	c, _, err := open(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	sleeper := reconcile.Resource[process]{Ref: reconcile.Ref{Kind: "process", ID: "sleeper"}}
	if _, err := c.Apply(ctx, reconcile.Upsert(sleeper.Ref, process{Args: []string{"sleep", "1000000"}}), reconcile.By("main")); err != nil {
		log.Fatal(err)
	}
	go func() {
		err := c.WaitConverged(ctx, sleeper.Ref)
		is, _ := processes{dir}.Observe(ctx, sleeper)
		fmt.Println("runs as", is.PID, is.Args, err)
	}()
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
