# The agent for NixOS systems that are flakes:
#
#   inputs.steady.url = "github:steadyfleet/steady?dir=examples/nix";
#   …
#   modules = [
#     steady.nixosModules.default
#     { services.steady-agent = { enable = true; tokenFile = "/etc/steady/gateway.token"; }; }
#   ];
{
  description = "Steady: keeps a fleet of hosts as declared";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "armv7l-linux" "i686-linux" "riscv64-linux" ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: { default = pkgs.callPackage ./package.nix { }; });

      nixosModules.default = { lib, pkgs, ... }: {
        imports = [ ./module.nix ];
        services.steady-agent.package = lib.mkDefault self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      };
    };
}
