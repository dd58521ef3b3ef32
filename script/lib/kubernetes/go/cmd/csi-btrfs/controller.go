package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

func (identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	return &csi.GetPluginCapabilitiesResponse{
		Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{Service: service}}},
	}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

type controller struct {
	csi.UnimplementedControllerServer
	pool pool
}

func (controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, able := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
	} {
		call := &csi.ControllerServiceCapability_RPC{Type: able}
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: call},
		})
	}
	return response, nil
}

func (c controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	path, err := c.pool.volume(request.Name)
	if err != nil {
		return nil, err
	}
	source, err := c.source(request.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	if err := c.pool.create(path, source); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:      request.Name,
		CapacityBytes: request.GetCapacityRange().GetRequiredBytes(),
		ContentSource: request.VolumeContentSource,
	}}, nil
}

func (c controller) source(content *csi.VolumeContentSource) (string, error) {
	if snapshot := content.GetSnapshot(); snapshot != nil {
		return c.pool.snapshot(snapshot.SnapshotId)
	}
	if volume := content.GetVolume(); volume != nil {
		return c.pool.volume(volume.VolumeId)
	}
	return "", nil
}

func (c controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	path, err := c.pool.volume(request.VolumeId)
	if err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, c.pool.delete(path)
}

func (c controller) CreateSnapshot(
	_ context.Context, request *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	source, err := c.pool.volume(request.SourceVolumeId)
	if err != nil {
		return nil, err
	}
	path, err := c.pool.snapshot(request.Name)
	if err != nil {
		return nil, err
	}
	if !exists(path) {
		if err := copyOf(source, path, "-r"); err != nil {
			return nil, err
		}
	}
	created, err := createdAt(path)
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId: request.Name, SourceVolumeId: request.SourceVolumeId, CreationTime: timestamppb.New(created), ReadyToUse: true,
	}}, nil
}

func (c controller) DeleteSnapshot(
	_ context.Context, request *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	path, err := c.pool.snapshot(request.SnapshotId)
	if err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, c.pool.delete(path)
}

func (controller) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: request.VolumeCapabilities},
	}, nil
}
