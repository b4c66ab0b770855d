"""Words that people use for what tools call otherwise, and words that say nothing.

A table of the trade, not a thesaurus: an entry earns its place when two groups of tool makers, or
people and tool makers, use different words for one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

STOP_WORDS = frozenset(
    """
    a about again all along already also am an and another any anybody anyone anything are around as
    ask at away be because been before being both but by came can cannot come comes could d did do does
    doing don done each either else especially etc even ever every everybody everyone everything few for
    from give given gives go goes going gone got had happen happened happens has have having he her here
    hers him his how i if in instead into is it its itself just keep keeps kind know let lets like likes
    ll lot made make makes making many may maybe me mean means might mine more most much must my myself
    need needed needs never new next no nobody none not nothing now of off often ok okay on once one
    ones only onto or other others our ours out over own particular per perhaps please prefer prefers
    put puts quickly quite rather re really recent said same say says see seems several shall she should
    simple simply so some somebody somehow someone something somewhere soon sort still such sure take
    taken takes taking tell tells than thank that the their theirs them then there these they thing
    things think this those through thus to together too took toward towards tried try trying up upon
    us use used useful uses using usually various ve very via want wanted wants was way ways we well
    went were what whatever when whenever where wherever whether which whichever while who whole whom
    whose why will wish with within without won would yet you your yours yourself
    tool tools function functions api method methods
    al au aux avec aus bei bitte con cual dans das de del dem den der des deux di die diese dieser du
    e ein eine einem einen einer eines el ella en es esta este et eu fur gli ich il ist je kann la las
    le les lo los ma mais meine mi mit mon na nach nos notre nous o ou oder para par pas por pour qu que
    qui se sich sind sobre son su sur tous tout toutes todas todos um uma un una und une uno vom von vous wie
    wir y zu zum zur
    """.split()
)

SAME = """
    delete remove erase drop destroy wipe purge unlink discard
    create make add new generate build
    insert add
    add append attach
    update edit modify change alter patch set
    rename move relabel
    replace substitute edit update
    get retrieve fetch obtain return show
    list show enumerate display
    read view open show get
    write save create store
    save store persist
    store add create
    search find query look seek lookup
    find locate search
    inspect describe show view
    send post submit publish deliver
    reply respond answer
    run execute exec invoke launch start
    evaluate run execute
    stop kill terminate end abort cancel halt quit
    start begin launch open
    restart reload rollout
    copy clone duplicate replicate
    merge combine join integrate fuse
    compare diff difference
    convert transform translate
    calculate compute evaluate
    summarize summary digest
    extract scrape pull
    crawl scrape spider
    upload push attach
    download fetch pull save
    visit navigate browse goto open
    click press tap push
    type enter write input fill
    fill complete enter
    choose select pick
    select query read
    watch monitor track observe
    notify alert notification
    schedule cron plan recurring
    check verify validate test status
    validate lint check
    revert undo reset restore rollback
    undo reset revert
    upgrade update bump
    install deploy add
    enable activate toggle
    disable deactivate toggle
    resize scale
    shrink compress
    compress zip gzip archive
    wait sleep delay pause
    remember memorize store memory
    link connect relate relation
    unlink disconnect
    assign update
    close shut end
    explain describe
    plot draw chart graph visualize
    diagram chart graph
    graph chart network
    picture image photo drawing
    screenshot capture snapshot
    snapshot capture
    video screencast recording record
    message msg msgs
    message chat text dm
    thread conversation discussion
    channel room
    user member person account
    users members people team
    profile user
    emoji reaction react like
    comment remark note
    review comment approve
    issue bug ticket defect problem
    error exception failure fault
    pr pull_request merge_request
    mr merge_request pull_request
    merge_request pull_request
    repository repo project
    repositories repos projects
    branch fork
    commit checkin
    history log changelog
    version revision release
    release tag
    stage add index
    directory folder dir
    directories folders dirs
    file document path
    path location
    size bytes length
    metadata info details
    details info information
    info information
    tree hierarchy structure recursive
    content contents body
    config configuration settings preferences options
    env environment
    var variable
    vars variables
    argument parameter
    key id
    identifier id
    name title
    title heading name
    address url link
    url link address uri
    website site webpage page web
    web internet online
    article page web
    browser web
    tab page window
    form input field
    box input field
    button element
    dropdown select option
    popup dialog alert modal
    keyboard key
    mouse pointer cursor hover
    screen display window
    device phone mobile emulate
    network request http traffic
    cookie session
    javascript js script
    typescript ts
    python py
    markdown md
    code source
    snippet code
    script code
    speed performance fast slow
    performance perf
    slow performance throttling
    accessibility a11y
    database db
    databases dbs
    database table
    row record entry
    rows records
    column field attribute
    columns fields schema
    schema structure describe
    sql query statement
    statement query sql
    cluster kubernetes k8s kube
    kubernetes k8s kube kubectl
    container pod docker
    deployment service workload
    replicas copies instances scale
    machine system computer host node
    server host
    process task job program
    processes tasks jobs programs
    terminal shell console command
    command cmd shell
    memory mem ram
    ram memory
    cpu processor
    disk storage
    stats statistics metrics usage
    usage consumption credit
    time clock hour
    timezone tz zone
    date day time
    weather forecast
    math arithmetic expression calculate
    number numeric value
    sum add total plus
    entity node object
    node entity
    relation relationship edge connection
    observation fact note
    knowledge memory graph
    fact observation
    thought reasoning thinking think
    docs documentation documents doc
    documentation docs reference manual
    doc document documentation
    library package dependency module framework
    paper article publication study
    citation reference
    research investigate study
    image img pic
    icon image
    map geo location
    route path
    point pin location
    percentage percent ratio share proportion
    proportion share pie
    share pie
    trend time
    category group
    distribution frequency histogram
    mail email
    auth authentication authorization
    login authentication signin
    secret credential
    token secret
    permission access
    request req
    response res reply
    temp temporary
    tmp temporary
    organization org
    number num
    current curr now today
    previous prev
    latest recent newest
    several multiple many
    multiple bulk batch
    job process task
    feedback rating opinion
    quota limit credit
    balance credit
    plan schedule
    document page
"""
"""Each line: words that stand for the first one and for each other."""


def one_way(text: str, key: Callable[[str], str] = str) -> dict[str, tuple[str, ...]]:
    """From lines of `what tools call it, the likeliest first: what people say`.

    In what they say, `/` stands between words of which each will do.
    """
    found: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        called, _, said = line.partition(": ")
        for expression in said.split(","):
            for chosen in product(*(each.split("/") for each in expression.split())):
                word = " ".join(chosen)
                found.setdefault(key(word), []).extend(map(str.strip, called.split(",")))
    return shared({word: tuple(dict.fromkeys(meanings)) for word, meanings in found.items()})


def together(found: Mapping[str, tuple[str, ...]], text: str) -> dict[str, tuple[str, ...]]:
    """With lines of words that stand for each other, `_` in them for a space."""
    both = {word: list(meanings) for word, meanings in found.items()}
    for line in text.strip().splitlines():
        group = [word.replace("_", " ") for word in line.split()]
        for word in group:
            both.setdefault(word, []).extend(group)
    return shared(
        {
            word: tuple(each for each in dict.fromkeys(meanings) if each != word)
            for word, meanings in both.items()
        }
    )


def shared(found: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """With one tuple for all that mean the same."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    return {word: known.setdefault(meanings, meanings) for word, meanings in found.items()}
