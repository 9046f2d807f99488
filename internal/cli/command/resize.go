package command

import (
	"os"
	"os/signal"
	"syscall"
)

// watch calls changed with each new size of the terminal until stop.
func (t *terminal) watch(changed func(rows, cols int)) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-signals:
				changed(t.size())
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}
