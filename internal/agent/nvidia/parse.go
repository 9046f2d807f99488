package nvidia

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/agent/metrics"
	"github.com/steadyfleet/steady/internal/agent/procfs"
)

// fields are asked of nvidia-smi in this order; the unit of memory is MiB.
const fields = "uuid,name,utilization.gpu,memory.total,memory.free,memory.used,temperature.gpu,power.draw,driver_version"

// parse reads the CSV that nvidia-smi prints without header and units. A
// value in brackets ([N/A], [Not Supported], [Unknown Error]) is absent. Any
// line that is not a device makes an error, since its output is then not what
// was asked for.
func parse(b []byte) ([]metrics.GPU, error) {
	var out []metrics.GPU
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		g, err := device(line)
		if err != nil {
			return nil, err
		}
		if len(out) == metrics.MaxGPUs {
			return out, fmt.Errorf("there are more than %d GPUs: the others are not measured", metrics.MaxGPUs)
		}
		out = append(out, g)
	}
	return out, nil
}

func device(line string) (metrics.GPU, error) {
	f := strings.Split(line, ",")
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	want := strings.Count(fields, ",") + 1
	if len(f) < want || f[0] == "" || absent(f[0]) {
		return metrics.GPU{}, fmt.Errorf("nvidia-smi printed %q, which is not a line of %d values that begins with a device's UUID: run it by hand",
			metrics.Text(line[:min(len(line), 80)]), want)
	}
	extra := len(f) - want // a name with commas
	g := metrics.GPU{UUID: metrics.Text(f[0]), Name: metrics.Text(strings.Join(f[1:2+extra], ", "))}
	v := f[1+extra:]
	var bad string
	number := func(i int, scale uint64) *int64 {
		n, known, ok := scaled(v[i], scale)
		if !ok {
			bad = v[i]
		}
		if !known {
			return nil
		}
		return &n
	}
	g.UtilPermille = number(1, 10)
	g.MemTotalBytes, g.MemFreeBytes, g.MemUsedBytes = number(2, 1<<20), number(3, 1<<20), number(4, 1<<20)
	g.TemperatureC, g.PowerMilliwatt = number(5, 1), number(6, 1000)
	if bad != "" {
		return metrics.GPU{}, fmt.Errorf("nvidia-smi printed %q where a number belongs: run it by hand", metrics.Text(bad[:min(len(bad), 80)]))
	}
	if absent(g.Name) {
		g.Name = ""
	}
	if !absent(v[7]) {
		g.Driver = metrics.Text(v[7])
	}
	return g, nil
}

// absent reports that the device does not give a value.
func absent(s string) bool {
	return s == "" || s == "N/A" || strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]")
}

// scaled reads a decimal and multiplies it. Only a temperature, whose scale
// is 1, may be below zero.
func scaled(s string, scale uint64) (n int64, known, ok bool) {
	if absent(s) {
		return 0, false, true
	}
	digits, minus := strings.CutPrefix(s, "-")
	m, ok := procfs.Milli([]byte(digits))
	if !ok || minus && scale != 1 {
		return 0, false, false
	}
	whole, rest := m/1000, m%1000
	n = metrics.Count(procfs.Add(procfs.Mul(whole, scale), rest*scale/1000))
	if minus {
		n = max(-n, metrics.MinTemperature)
	}
	return n, true, true
}
