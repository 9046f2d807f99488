# The agent of a host as a module of NixOS, which makes units of its configuration: steady agent
# install refuses to write one there. Its settings are those of that unit, and a test compares them.
{ config, lib, pkgs, ... }:

let
  cfg = config.services.steady-agent;
  # A word of ExecStart: systemd reads the escapes of JSON, and expands $ and % unless they are doubled.
  word = w: builtins.replaceStrings [ "%" "$" ] [ "%%" "$$" ] (builtins.toJSON "${w}");
  verb = if baseNameOf "${cfg.program}" == "steady-agent" || lib.hasSuffix "-steady-agent" "${cfg.program}" then [ ] else [ "agent" ];
  token = if cfg.tokenFile == null then [ ] else [ "--token" cfg.tokenFile ];
in
{
  options.services.steady-agent = {
    enable = lib.mkEnableOption "the agent of a host of a Steady fleet";

    package = lib.mkOption {
      type = lib.types.nullOr lib.types.package;
      default = null;
      description = "The package with bin/steady-agent, as package.nix or the flake beside this module has it.";
    };

    program = lib.mkOption {
      type = lib.types.either lib.types.path lib.types.str;
      default = if cfg.package == null then throw "services.steady-agent needs a package or a program" else "${cfg.package}/bin/steady-agent";
      defaultText = lib.literalExpression ''"''${package}/bin/steady-agent"'';
      example = lib.literalExpression "./steady-agent";
      description = "The program: steady-agent, or steady. Released ones are static and run on NixOS as they are; a path is copied to the store.";
    };

    tokenFile = lib.mkOption {
      type = lib.types.nullOr lib.types.str;
      default = null;
      example = "/etc/steady/edge-1.token";
      description = "File with the token of steady token create, for the first start. It is a secret until then: a string, so that it does not get into the store. Once the host is enrolled it may be gone.";
    };

    flags = lib.mkOption {
      type = lib.types.listOf lib.types.str;
      default = [ ];
      example = [ "--http" ":80" ];
      description = "Flags of the agent besides --state, --root and --token.";
    };

    path = lib.mkOption {
      type = lib.types.listOf (lib.types.oneOf [ lib.types.package lib.types.str ]);
      default = [ config.nix.package "/run/wrappers" "/run/current-system/sw" ];
      defaultText = lib.literalExpression ''[ config.nix.package "/run/wrappers" "/run/current-system/sw" ]'';
      description = "What has the programs that the agent and the commands of bundles find: nix-env and nix-store, and those of the system.";
    };
  };

  config = lib.mkIf cfg.enable {
    systemd.services.steady-agent = {
      description = "Steady agent of this host";
      documentation = [ "https://github.com/steadyfleet/steady" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ];
      wantedBy = [ "multi-user.target" ];
      path = cfg.path;
      # A new version of the agent comes with the system, in one restart at the end of the switch. Stopped before and
      # started after it, as NixOS does by default, the agent would stay away from a host whose switch fails.
      # KillMode leaves the switch, which the agent started, alone.
      restartIfChanged = true;
      stopIfChanged = false;
      unitConfig.StartLimitIntervalSec = 0;
      serviceConfig = {
        ExecStart = lib.concatMapStringsSep " " word
          ([ "${cfg.program}" ] ++ verb ++ [ "--state" "/var/lib/steady" "--root" "/" ] ++ token ++ cfg.flags);
        StateDirectory = "steady";
        StateDirectoryMode = "0700";
        UMask = "0022";
        KillSignal = "SIGTERM";
        KillMode = "process";
        TimeoutStopSec = 30;
        FileDescriptorStoreMax = 256;
        NotifyAccess = "main";
        Restart = "always";
        RestartSec = 2;
        OOMScoreAdjust = -500;
        LockPersonality = true;
        SystemCallArchitectures = "native";
      };
    };
  };
}
