package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pool is the directory on btrfs. Each of its operations may be repeated.
type pool struct{ root string }

func (p pool) prepare() error {
	for _, kind := range []string{"volumes", "snapshots"} {
		if err := os.MkdirAll(filepath.Join(p.root, kind), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (p pool) volume(id string) (string, error)   { return p.path("volumes", id) }
func (p pool) snapshot(id string) (string, error) { return p.path("snapshots", id) }

func (p pool) path(kind, id string) (string, error) {
	if id == "" || id != filepath.Base(id) || strings.HasPrefix(id, ".") {
		return "", status.Errorf(codes.InvalidArgument, "%q is no identifier of this driver", id)
	}
	return filepath.Join(p.root, kind, id), nil
}

// create makes a volume that is empty, or a clone of a source.
func (p pool) create(path, source string) error {
	if exists(path) {
		return nil
	}
	if source != "" {
		return copyOf(source, path)
	}
	half := filepath.Join(p.root, "half-"+filepath.Base(path))
	if !exists(half) {
		if err := btrfs("subvolume", "create", half); err != nil {
			return err
		}
	}
	// Any user may write at the top: PostgreSQL makes a directory of its own there.
	if err := os.Chmod(half, 0o777); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := os.Rename(half, path); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

func copyOf(source, path string, options ...string) error {
	if !exists(source) {
		return status.Errorf(codes.NotFound, "the source %s does not exist", filepath.Base(source))
	}
	return btrfs(append(append([]string{"subvolume", "snapshot"}, options...), source, path)...)
}

func (p pool) delete(path string) error {
	if !exists(path) {
		return nil
	}
	return btrfs("subvolume", "delete", path)
}

// createdAt returns when a snapshot was made. The inode's own times are its source's.
func createdAt(path string) (time.Time, error) {
	output, err := exec.Command("btrfs", "subvolume", "show", path).Output()
	if err != nil {
		return time.Time{}, status.Errorf(codes.Internal, "btrfs subvolume show %s: %v", path, err)
	}
	for _, line := range strings.Split(string(output), "\n") {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "Creation time:"); found {
			return time.Parse("2006-01-02 15:04:05 -0700", strings.TrimSpace(value))
		}
	}
	return time.Time{}, status.Errorf(codes.Internal, "btrfs does not tell when %s was made", path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func btrfs(arguments ...string) error {
	output, err := exec.Command("btrfs", arguments...).CombinedOutput()
	if err != nil {
		return status.Errorf(codes.Internal, "btrfs %s: %s", strings.Join(arguments, " "), strings.TrimSpace(string(output)))
	}
	return nil
}
