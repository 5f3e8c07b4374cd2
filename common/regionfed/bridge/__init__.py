"""RegionBridge: the gRPC service that joins the two faces of a coordinator."""
