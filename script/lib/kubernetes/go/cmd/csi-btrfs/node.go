package main

import (
	"context"
	"errors"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type nodeServer struct {
	csi.UnimplementedNodeServer
	pool pool
	name string
}

func (nodeServer) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (n nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.name}, nil
}

func (n nodeServer) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	path, err := n.pool.volume(request.VolumeId)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(request.TargetPath, 0o755); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if sameDirectory(path, request.TargetPath) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := unix.Mount(path, request.TargetPath, "", unix.MS_BIND, ""); err != nil {
		return nil, status.Errorf(codes.Internal, "mounting %s on %s: %v", path, request.TargetPath, err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func sameDirectory(one, other string) bool {
	var a, b unix.Stat_t
	return unix.Stat(one, &a) == nil && unix.Stat(other, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

func (nodeServer) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	err := unix.Unmount(request.TargetPath, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return nil, status.Errorf(codes.Internal, "unmounting %s: %v", request.TargetPath, err)
	}
	if err := os.Remove(request.TargetPath); err != nil && !os.IsNotExist(err) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
