// Command csi-btrfs is a CSI driver for one node: a volume is a btrfs subvolume, and a snapshot a read-only one. Snapshots and
// clones share their blocks with their source, take milliseconds, and are atomic over the whole volume.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const driverName = "btrfs.csi.ramet.test"

func main() {
	root := flag.String("root", "", "directory on btrfs that holds the volumes and the snapshots")
	socket := flag.String("socket", "", "where the driver listens")
	registry := flag.String("registry", "", "where the kubelet looks for the driver")
	node := flag.String("node", "", "name of the node")
	flag.Parse()

	pool := pool{root: *root}
	if err := pool.prepare(); err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csi.RegisterIdentityServer(server, &identity{})
	csi.RegisterControllerServer(server, &controller{pool: pool})
	csi.RegisterNodeServer(server, &nodeServer{pool: pool, name: *node})
	go func() { log.Fatal(server.Serve(listen(*socket))) }()

	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, &registrationServer{socket: *socket})
	log.Fatal(registrar.Serve(listen(*registry)))
}

func listen(path string) net.Listener {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		log.Fatal(err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	start := time.Now()
	response, err := handle(ctx, request)
	if base := filepath.Base(info.FullMethod); err != nil || (base != "Probe" && base != "NodeGetCapabilities") {
		log.Printf("%s took %s, error: %v", base, time.Since(start), err)
	}
	return response, err
}

type registrationServer struct {
	registration.UnimplementedRegistrationServer
	socket string
}

func (r registrationServer) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driverName, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrationServer) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered with the kubelet: %v %s", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}
