package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// setClock makes a running program read a wall clock that is ahead by so much; its
// monotonic clock runs on. A program reads both in its vDSO, the code that the kernel
// has put into its memory, and this replaces that code. The test is skipped where that
// is not allowed.
func setClock(t testing.TB, pid int, ahead time.Duration) {
	t.Helper()
	from, to := vdsoOf(t, pid)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this system lets no process change another one: %v", err)
	}
	defer memory.Close()
	image := make([]byte, to-from)
	if _, err := memory.ReadAt(image, int64(from)); err != nil {
		t.Fatal(err)
	}
	program, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := program.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: 0 is the wall clock
		0x75, 0x07, // jnz to the end
		0x48, 0x81, 0x06, // add qword ptr [rsi], seconds
	}
	code = append(binary.LittleEndian.AppendUint32(code, uint32(int32(ahead/time.Second))), 0xc3) // ret
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	if i < 0 {
		t.Skip("this kernel has no clocks in its vDSO")
	}
	if symbols[i].Size < uint64(len(code)) {
		t.Skipf("this kernel reads its clocks in %d bytes of code", symbols[i].Size)
	}
	at := from + symbols[i].Value
	defer haltOutside(t, pid, at, at+symbols[i].Size)()
	if _, err := memory.WriteAt(code, int64(at)); err != nil {
		t.Skipf("this system lets no process change another one: %v", err)
	}
}

func vdsoOf(t testing.TB, pid int) (from, to uint64) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^([0-9a-f]+)-([0-9a-f]+) .*\[vdso\]$`).FindSubmatch(maps)
	if m == nil {
		t.Skip("this system has no vDSO")
	}
	from, _ = strconv.ParseUint(string(m[1]), 16, 64)
	to, _ = strconv.ParseUint(string(m[2]), 16, 64)
	return from, to
}

// haltOutside stops a process while none of its threads runs these instructions.
func haltOutside(t testing.TB, pid int, from, to uint64) (goOn func()) {
	t.Helper()
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no thread reads a clock", func() bool {
		signal(syscall.SIGSTOP)
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		if err != nil || len(tasks) == 0 {
			t.Skipf("this system does not say what threads do: %v", err)
		}
		for _, task := range tasks {
			var at uint64
			eventually(t, "all threads have stopped", func() bool {
				b, err := os.ReadFile(task)
				if err != nil {
					return true // it has ended
				}
				all := strings.Fields(string(b))
				at, err = strconv.ParseUint(all[len(all)-1], 0, 64) // else it is "running"
				return err == nil
			})
			if at >= from && at < to {
				signal(syscall.SIGCONT)
				return false
			}
		}
		return true
	})
	return func() { signal(syscall.SIGCONT) }
}

// TestClocksOfNodes: a leader whose clock jumps by ten minutes hands over and says why.
// One that is ahead says until its clock is right again that it is not ready; all nodes
// read. Whatever clock jumps, payments are created, each once.
func TestClocksOfNodes(t *testing.T) {
	inLong(t)
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	a, ok := n.persist(t, 0, "POST", "/v1/payments", `{"amount":"15.00"}`, "Idempotency-Key", "ffffffff-0000-4000-8000-000000000000")
	if !ok || a.Status != 201 {
		t.Fatalf("POST: %d %s", a.Status, a.Body)
	}
	id := a.text(t, "id")
	w := n.write(t)
	steps := []time.Duration{10 * time.Minute, -10 * time.Minute}
	for _, ahead := range steps {
		off := n.leader(t, 0)
		other := (off + 1) % 3
		setClock(t, n.servers[off].cmd.Process.Pid, ahead)
		why := "its clock is [0-9ms.]+ ahead of those of all others"
		if ahead < 0 {
			why = "its clock is [0-9ms.]+ behind those of all others"
		}
		said := regexp.MustCompile(why)
		eventually(t, "node "+nodeNames[off]+" says that "+why, func() bool {
			all, _ := n.status(t, other)
			return said.MatchString(all[off].Trouble)
		})
		eventually(t, "another node is the leader", func() bool { return n.leader(t, other) != off })
		if ahead > 0 {
			eventually(t, "it is not ready", func() bool {
				a, err := n.servers[off].send("GET", "/readyz", "")
				return err == nil && a.Status == 503
			})
		}
		for i := range n.servers {
			if a, ok := n.persist(t, i, "GET", "/v1/payments/"+id, ""); !ok || a.Status != 200 {
				t.Errorf("GET at node %s: %d %s", nodeNames[i], a.Status, a.Body)
			}
		}
		setClock(t, n.servers[off].cmd.Process.Pid, 0)
		eventually(t, "the clock is right again", func() bool {
			all, code := n.status(t, other)
			return code == 0 && all[off].Trouble == ""
		})
	}
	for _, ahead := range steps { // of a node that only follows
		off := (n.leader(t, 0) + 1) % 3
		setClock(t, n.servers[off].cmd.Process.Pid, ahead)
		w.more(t, 10)
		setClock(t, n.servers[off].cmd.Process.Pid, 0)
	}
	payments := w.end() + 1
	if t.Failed() {
		t.FailNow()
	}
	n.agree(t, payments)
}
