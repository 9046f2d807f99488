package measure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// gpuFields are asked of nvidia-smi in this order; the unit of memory is MiB.
const gpuFields = "uuid,name,utilization.gpu,memory.total,memory.free,memory.used,temperature.gpu,power.draw,driver_version"

// parseGPUs reads the CSV that nvidia-smi prints without header and units. A
// value in brackets ([N/A], [Not Supported], [Unknown Error]) is absent. Any
// line that is not a device makes an error, since its output is then not what
// was asked for.
func parseGPUs(b []byte) ([]GPU, error) {
	var out []GPU
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		g, err := parseGPU(line)
		if err != nil {
			return nil, err
		}
		if len(out) == MaxGPUs {
			return out, fmt.Errorf("there are more than %d GPUs: the others are not measured", MaxGPUs)
		}
		out = append(out, g)
	}
	return out, nil
}

func parseGPU(line string) (GPU, error) {
	f := strings.Split(line, ",")
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	want := strings.Count(gpuFields, ",") + 1
	if len(f) < want || f[0] == "" || absent(f[0]) {
		return GPU{}, fmt.Errorf("nvidia-smi printed %q, which is not a line of %d values that begins with a device's UUID: run it by hand",
			Text(line[:min(len(line), 80)]), want)
	}
	extra := len(f) - want // a name with commas
	g := GPU{UUID: Text(f[0]), Name: Text(strings.Join(f[1:2+extra], ", "))}
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
		return GPU{}, fmt.Errorf("nvidia-smi printed %q where a number belongs: run it by hand", Text(bad[:min(len(bad), 80)]))
	}
	if absent(g.Name) {
		g.Name = ""
	}
	if !absent(v[7]) {
		g.Driver = Text(v[7])
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
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 && scale != 1 {
		return 0, false, false
	}
	return int64(min(max(f*float64(scale), MinTemperature), MaxInteger)), true, true
}
