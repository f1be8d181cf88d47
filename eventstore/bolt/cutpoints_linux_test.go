package bolt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCutAtEveryCall records the system calls of a store under load and replays them
// on a disk that keeps only synced data. The power is cut at each call: of the data
// not yet synced, any part may be on the disk, in any order, torn at sectors.
func TestCutAtEveryCall(t *testing.T) {
	t.Parallel()
	const writers = 4
	commits := rounds(5, 10)
	path := newLog(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	base := image{content, int64(len(content))}
	out, trace := straced(t, path, writers, commits, nil, traceFlags(path)...)
	if !strings.HasSuffix(strings.SplitAfter(out, "done\n")[0], "done\n") {
		t.Fatalf("the run was not clean:\n%s", out)
	}
	calls := parseTrace(t, trace)
	after := base.clone()
	for _, c := range calls {
		after.apply(c)
	}
	now, err := os.ReadFile(path)
	if err != nil || int64(len(now)) != after.size || !bytes.HasPrefix(now, after.data) || len(bytes.TrimLeft(now[len(after.data):], "\x00")) > 0 {
		t.Fatalf("playing all calls back does not lead to the file as it is: %v", err)
	}
	p := &playback{path: filepath.Join(t.TempDir(), "ledger.db"), seen: make(map[[32]byte]bool), random: rand.New(rand.NewPCG(1, 2))}
	p.play(base, calls, false, func(acks string) bool {
		if wrongs := heard(t, acks, writers, commits).wrongs(p.path); len(wrongs) > 0 {
			t.Fatalf("cut number %d, after\n%s%d wrongs: %q", len(p.seen), acks, len(wrongs), first(wrongs))
		}
		return true
	})
	t.Logf("%d calls, %d ways to lose power", len(calls), len(p.seen))
	if len(p.seen) < 10*commits {
		t.Errorf("only %d ways to lose power were tried", len(p.seen))
	}

	// The control: on a disk that ignores syncs, and with a store that does not
	// sync, commits are lost, and the replay finds it.
	p.broken(t, "syncs that do nothing", base, calls, true, writers, commits)
	path = newLog(t)
	_, trace = straced(t, path, writers, commits, []string{childNoSync + "=1"}, traceFlags(path)...)
	p.broken(t, "a store that does not sync", base, parseTrace(t, trace), false, writers, commits)
}

func (p *playback) broken(t *testing.T, what string, base image, calls []call, deaf bool, writers, commits int) {
	t.Helper()
	noticed := false
	p.seen = make(map[[32]byte]bool)
	p.play(base, calls, deaf, func(acks string) bool {
		noticed = len(heard(t, acks, writers, commits).wrongs(p.path)) > 0
		return !noticed
	})
	if !noticed {
		t.Errorf("%s: none of %d cuts lost anything", what, len(p.seen))
	}
	t.Logf("%s: noticed at cut number %d", what, len(p.seen))
}

// call is one system call of the store: a write to the log, a change of its size, a
// sync, or an answer that was printed.
type call struct {
	data []byte // of a write
	at   int64  // of a write, or the new size
	grow bool
	sync bool
	ack  string
}

// image is a file: its bytes, and zeros up to its size.
type image struct {
	data []byte
	size int64
}

func (f image) clone() image { return image{slices.Clone(f.data), f.size} }

func (f image) write(path string) error {
	if err := os.WriteFile(path, f.data, 0o600); err != nil {
		return err
	}
	return os.Truncate(path, f.size)
}

func (f *image) apply(c call) { f.applyPart(c, 0, len(c.data)) }

// applyPart applies some of a write's bytes.
func (f *image) applyPart(c call, from, to int) {
	switch {
	case c.grow:
		f.size = c.at
		f.data = f.data[:min(len(f.data), int(c.at))]
	case to > from:
		if end := int(c.at) + to; end > len(f.data) {
			f.data = append(f.data, make([]byte, end-len(f.data))...)
			f.size = max(f.size, int64(end))
		}
		copy(f.data[int(c.at)+from:], c.data[from:to])
	}
}

// playback makes the files that a power cut can leave.
type playback struct {
	path   string
	seen   map[[32]byte]bool
	random *rand.Rand
}

// play cuts the power at every call. deaf: syncs do nothing. judge examines the file
// at p.path and returns whether to continue; acks are the answers given before the
// cut.
func (p *playback) play(durable image, calls []call, deaf bool, judge func(acks string) bool) {
	var pending []call
	var acks strings.Builder
	durable = durable.clone()
	for _, c := range calls {
		switch {
		case c.ack != "":
			acks.WriteString(c.ack)
		case c.sync && !deaf:
			for _, w := range pending {
				durable.apply(w)
			}
			pending = nil
		case !c.sync:
			pending = append(pending, c)
			if len(pending) > 24 {
				durable.apply(pending[0])
				pending = pending[1:]
			}
		}
		for _, file := range p.cuts(durable, pending) {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s%d\n%s", acks.String(), file.size, file.data))
			if p.seen[sum] {
				continue
			}
			p.seen[sum] = true
			if err := file.write(p.path); err != nil {
				panic(err)
			}
			if !judge(acks.String()) {
				return
			}
		}
	}
}

const sector = 512

// cuts are files with some of the pending calls: every subset of a few calls; of
// more, all, none and random subsets. The newest call is also torn.
func (p *playback) cuts(durable image, pending []call) (files []image) {
	with := func(chosen uint64) image {
		file := durable.clone()
		for i, c := range pending {
			if chosen>>i&1 == 1 {
				file.apply(c)
			}
		}
		files = append(files, file)
		return file
	}
	all := uint64(1)<<len(pending) - 1
	if len(pending) <= 6 {
		for chosen := range all + 1 {
			with(chosen)
		}
	} else {
		with(all)
		with(0)
		for range 24 {
			with(p.random.Uint64() & all)
		}
	}
	if len(pending) == 0 {
		return files
	}
	newest := pending[len(pending)-1]
	if n := len(newest.data) / sector; n > 1 {
		tear := sector * (1 + p.random.IntN(n-1))
		head, tail := with(all>>1), with(all>>1)
		head.applyPart(newest, 0, tear)
		tail.applyPart(newest, tear, len(newest.data))
		files = append(files, head, tail)
	}
	return files
}

func traceFlags(path string) []string {
	return []string{"-y", "-xx", "-s", "16777216", "-e", "trace=pwrite64,write,ftruncate,fdatasync,fsync"}
}

// Lines of strace, with strings in hexadecimal. The path after a descriptor is
// in hexadecimal too. A call that another thread interrupts takes two lines.
var (
	traceLine   = regexp.MustCompile(`^(\d+) +(\w+)\((\d+)<([^>]*)>(?:, "([^"]*)")?(?:, (\d+))?(?:, (\d+))?(?:\)| <unfinished \.\.\.>)(?: += (\d+))?$`)
	traceResume = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>.*\) += (-?\d+)`)
)

// parseTrace picks the calls that change the file out of strace's output, in the
// order in which they ended. An answer counts from when it began.
func parseTrace(t *testing.T, trace string) (calls []call) {
	t.Helper()
	unfinished := make(map[string]call)
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		if m := traceResume.FindStringSubmatch(line); m != nil {
			if c, ok := unfinished[m[1]]; ok {
				calls = append(calls, c)
				delete(unfinished, m[1])
			}
			continue
		}
		m := traceLine.FindStringSubmatch(line)
		if m == nil {
			if strings.Contains(line, "+++") || strings.Contains(line, "---") {
				continue
			}
			t.Fatalf("a line of strace that is not understood: %.300s", line)
		}
		number := func(s string) int64 {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatalf("%.300s: %v", line, err)
			}
			return n
		}
		var c call
		name := string(unescape(t, m[4]))
		ours := strings.HasSuffix(name, "ledger.db")
		switch {
		case m[2] == "write" && m[3] == "1":
			if text := string(unescape(t, m[5])); strings.HasPrefix(text, "ack ") {
				calls = append(calls, call{ack: text})
			}
			continue
		case !ours:
			continue
		case m[2] == "pwrite64":
			c = call{data: unescape(t, m[5]), at: number(m[7])}
		case m[2] == "ftruncate":
			c = call{grow: true, at: number(m[6])}
		case m[2] == "fdatasync", m[2] == "fsync":
			c = call{sync: true}
		default:
			t.Fatalf("a call on the log that the playback does not know: %.300s", line)
		}
		if strings.HasSuffix(line, "<unfinished ...>") {
			unfinished[m[1]] = c
		} else {
			calls = append(calls, c)
		}
	}
	return calls
}

func unescape(t *testing.T, s string) []byte {
	t.Helper()
	if !strings.HasPrefix(s, `\x`) {
		return []byte(s)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
	if err != nil {
		t.Fatal(fmt.Errorf("%.100s: %w", s, err))
	}
	return b
}
