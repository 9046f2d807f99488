# Both programs, static, so that they run on every Linux: pkgs.callPackage ./package.nix { }
# Where Steady's source is elsewhere, give it as src. Go has to be at least what go.mod names.
{ lib, buildGoModule, src ? ../.., vendorHash ? "sha256-DQv+Smnu1Fr3Izw5FROzu9e++U/0pwH8lKAns1Zjq2Y=" }:

buildGoModule {
  pname = "steady";
  version = "0.1.0";
  inherit src vendorHash;
  subPackages = [ "cmd/steady" "cmd/steady-agent" ];
  env.CGO_ENABLED = 0;
  ldflags = [ "-s" "-w" ];
  doCheck = false; # the tests start servers, engines and browsers
  meta = {
    description = "Keeps a fleet of hosts as declared";
    homepage = "https://github.com/steadyfleet/steady";
    mainProgram = "steady";
    platforms = lib.platforms.linux;
  };
}
