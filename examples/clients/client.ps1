# Scheduled Events with PowerShell 7: ask, pick what hits this VM, get ready, approve, come back.
#   client.ps1 HOOK      the hook is called with: prepare|others-ready|restore EVENT-ID EVENT-TYPE; exit 0 means done
param([Parameter(Mandatory)] [string] $Hook)
$ErrorActionPreference = 'Stop'

$base = $env:DUENOTICE_METADATA_ENDPOINT ? $env:DUENOTICE_METADATA_ENDPOINT : 'http://169.254.169.254'
$events = "$base/metadata/scheduledevents?api-version=2020-07-01"
$default = $IsWindows ? "$env:ProgramData\duenotice-client" : '/var/lib/duenotice-client'
$state = $env:DUENOTICE_STATE_DIR ? $env:DUENOTICE_STATE_DIR : $default # must survive a reboot
$approved = @{}
New-Item -ItemType Directory -Force $state | Out-Null

# The header goes with POST too; no proxy; a redirect, like every other status that is not a success, throws.
$manners = @{ Headers = @{ Metadata = 'true' }; NoProxy = $true; MaximumRedirection = 0; TimeoutSec = 3 }

function Invoke-Hook([string] $verb, [string] $id, [string] $type) {
    & $Hook $verb $id $type | Out-Host
    $LASTEXITCODE -eq 0
}

function Initialize-Event($one) {
    $id, $type, $begun = $one.EventId, $one.EventType, (Join-Path $state $one.EventId)
    if (-not (Test-Path $begun) -or (Get-Content $begun) -ne "prepared $type") {
        Set-Content $begun "begun $type" # first, so that it is undone even if we are killed on the way
        if (-not (Invoke-Hook prepare $id $type)) { return }
        Set-Content $begun "prepared $type"
    }
    # An approval is for all VMs of the event: only its leader does it, and only when every one of them is ready.
    if ($one.Resources[0] -cne $me -or $one.EventStatus -ne 'Scheduled' -or $approved[$id]) { return }
    if ($one.Resources.Count -gt 1 -and -not (Invoke-Hook others-ready $id $type)) { return }
    $body = @{ StartRequests = @(@{ EventId = $id }) } | ConvertTo-Json -Depth 3
    Invoke-RestMethod $events @manners -Method Post -Body $body -ContentType 'application/json' | Out-Null
    $approved[$id] = $true
}

# An error, an empty answer or a sign-in page is not "no events": leave all as it is and ask again.
function Invoke-Attempt([scriptblock] $work) {
    try { & $work } catch { [Console]::Error.WriteLine("asking again: $_") }
}

function Invoke-Round {
    $document = Invoke-RestMethod $events @manners
    if ($document.Events -isnot [array]) { throw 'not a document' } # an empty 200 ends up here as well
    # Every event counts, not only the first; NotBefore is left alone, it is empty once an event has started.
    $mine = @($document.Events | Where-Object { $_.Resources -ccontains $me -and $_.EventId -match '^[0-9A-Fa-f-]+$' })
    foreach ($begun in Get-ChildItem -File $state) { # an event that is over or cancelled just disappears
        if ($mine.EventId -contains $begun.Name) { continue }
        $type = (Get-Content $begun.FullName).Split(' ')[1]
        if (Invoke-Hook restore $begun.Name $type) { Remove-Item $begun.FullName }
    }
    foreach ($one in $mine) { Invoke-Attempt { Initialize-Event $one } } # one that fails must not block the others
}

for ($me = ''; ; Start-Sleep 1) {
    Invoke-Attempt {
        if (-not $me) { $script:me = (Invoke-RestMethod "$base/metadata/instance?api-version=2021-02-01" @manners).compute.name }
        if ($me) { Invoke-Round }
    }
}
