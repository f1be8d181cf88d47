package storetest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"
)

// Disk is an ext4 file system in a file, made and mounted for one test, whose
// power can be cut.
type Disk struct {
	// Dir is where the file system is mounted. Restore changes it.
	Dir string

	t     testing.TB
	image string
	mount int // counts the mounts
}

// Cut is what becomes of ext4's journal when the power goes.
type Cut uint32

// The kinds of cut: what was not synced is lost in both, but in the first the
// journal is written once more.
const (
	CutWithJournal Cut = 1
	CutAtOnce      Cut = 2
)

// NewDisk makes a disk of size MiB. It skips the test where that needs rights or programs that are
// not there; with PAYLEDGER_REQUIRE_TOOLS set, programs must be there.
func NewDisk(t testing.TB, size int) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system of its own needs root")
	}
	RequireTools(t, "e2fsprogs", "mkfs.ext4")
	RequireTools(t, "mount", "mount", "umount")
	d := &Disk{t: t, image: filepath.Join(t.TempDir(), "disk.img")}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(int64(size)<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", d.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	if out, err := d.attach(); err != nil {
		t.Skipf("this system mounts no loop devices, even for root: %v: %s", err, out)
	}
	return d
}

// RequireTools skips the test where one of the programs is missing, or fails
// it with PAYLEDGER_REQUIRE_TOOLS set. debian names their package.
func RequireTools(t testing.TB, debian string, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("PAYLEDGER_REQUIRE_TOOLS") != "" {
			t.Fatalf("%s (Debian package %s) is not installed, and PAYLEDGER_REQUIRE_TOOLS is set", program, debian)
		}
		t.Skipf("%s (Debian package %s) is not installed", program, debian)
	}
}

func (d *Disk) attach() (out []byte, err error) {
	d.mount++
	d.Dir = filepath.Join(filepath.Dir(d.image), "mount"+strconv.Itoa(d.mount))
	if err := os.Mkdir(d.Dir, 0o700); err != nil {
		return nil, err
	}
	if out, err = exec.Command("mount", "-t", "ext4", "-o", "loop", d.image, d.Dir).CombinedOutput(); err != nil {
		return out, err
	}
	dir := d.Dir
	d.t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return nil, nil
}

// Cut cuts the power: nothing reaches the disk any more, and what was written
// but not synced never does. Writing fails from here on.
func (d *Disk) Cut(how Cut) {
	d.t.Helper()
	dir, err := os.Open(d.Dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	// The call below shuts down the file system at the path. It must be this one: on a loop device,
	// whose major number is 7.
	var at syscall.Stat_t
	if err := syscall.Fstat(int(dir.Fd()), &at); err != nil || at.Dev>>8 != 7 {
		d.t.Fatalf("%s is not on a loop device: %v, device %#x", d.Dir, err, at.Dev)
	}
	const ext4IOCShutdown = 0x8004587d
	flag := uint32(how)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), ext4IOCShutdown, uintptr(unsafe.Pointer(&flag)))
	if errno != 0 {
		d.t.Fatalf("shutting ext4 down: %v", errno)
	}
}

// Refuse makes the disk read-only, as ext4 does when the device fails.
func (d *Disk) Refuse() {
	d.t.Helper()
	if out, err := exec.Command("mount", "-o", "remount,abort", d.Dir).CombinedOutput(); err != nil {
		d.t.Fatalf("aborting ext4: %v: %s", err, out)
	}
}

// Restore brings the power back: the disk holds what had reached it.
func (d *Disk) Restore() {
	d.t.Helper()
	err := syscall.Unmount(d.Dir, 0)
	if err == nil {
		d.mustAttach()
		if !d.dead() {
			return
		}
	}
	// Something still holds the file system whose power was cut: a process that
	// has files of it mapped, or the mounts of another namespace, such as a
	// browser's. The disk is read past it.
	if err := syscall.Unmount(d.Dir, syscall.MNT_DETACH); err != nil {
		d.t.Fatal(err)
	}
	d.image = copyFile(d.t, d.image, d.image+strconv.Itoa(d.mount))
	d.mustAttach()
}

func (d *Disk) mustAttach() {
	d.t.Helper()
	if out, err := d.attach(); err != nil {
		d.t.Fatalf("mounting the disk again: %v: %s", err, out)
	}
}

// dead reports whether what is mounted is the file system whose power was cut:
// mount takes the loop device that the image still has.
func (d *Disk) dead() bool {
	d.t.Helper()
	dir, err := os.Open(d.Dir)
	if err != nil {
		return true
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync() != nil
}

func copyFile(t testing.TB, from, to string) string {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return to
}

// NewTmpfs mounts a file system of size MiB in memory for one test and returns its path. It skips
// the test where that is refused.
func NewTmpfs(t testing.TB, size int) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system of its own needs root")
	}
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(size)+"m"); err != nil {
		t.Skipf("this system mounts no tmpfs, even for root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}
