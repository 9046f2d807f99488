package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/steadyfleet/steady/internal/sandbox"
)

// leastPriority is the lowest nice value.
const leastPriority = 19

// helper is a process of the run that stands for other computers: of the lowest priority, so that it
// takes nothing of what server and hosts have. It is told lines and answers lines, each of JSON.
type helper struct {
	*sandbox.Process
	in  io.Writer
	out *bufio.Reader
}

// help starts `exe bench name`, which is told cfg first. It ends with the run, or with Stop.
func (b *bench) help(name string, cfg any) (*helper, error) {
	cmd := exec.Command(b.o.Exe, "bench", name)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := sandbox.Start("the "+name, filepath.Join(b.dir, name+".log"), cmd)
	if err != nil {
		return nil, err
	}
	b.crowd.group.Go(func() {
		select {
		case <-b.ctx.Done():
			p.Stop(stopIn)
		case <-p.Exited:
		}
	})
	h := &helper{p, in, bufio.NewReader(out)}
	return h, errors.Join(syscall.Setpriority(syscall.PRIO_PGRP, p.PID(), leastPriority), h.tell(cfg))
}

func (h *helper) tell(line any) error { return json.NewEncoder(h.in).Encode(line) }

// answer reads the next line.
func (h *helper) answer(to any) error {
	raw, err := h.out.ReadBytes('\n')
	if err != nil {
		return h.Failure(fmt.Sprintf("did not answer: %v", err))
	}
	return json.Unmarshal(raw, to)
}
